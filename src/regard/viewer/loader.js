"use strict";
(async () => {
  for (const tag of ["style", "script"]) {
    const packed = atob(document.getElementById(`regard-${tag}`).textContent);
    const bytes = new Blob([Uint8Array.from(packed, (sign) => sign.charCodeAt(0))]);
    const element = document.createElement(tag);
    element.textContent = await new Response(bytes.stream().pipeThrough(new DecompressionStream("gzip"))).text();
    document.head.append(element);
  }
})();
