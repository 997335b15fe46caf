/** The token has been exchanged for a cookie: drop it from the address, keeping the fragment. */
location.replace(`/${location.hash}`);
