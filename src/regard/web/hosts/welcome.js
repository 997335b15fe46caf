/** The first address of the studio: its token has become a cookie, so go on without it, to the same place. */
location.replace(`/${location.hash}`);
