/* Browsers refuse workers to pages that are opened as files. Search then runs in a hidden frame. */
if (location.protocol === "file:") {
  const later = (give, data) => {
    const copy = structuredClone(data); // as a worker would get it
    setTimeout(() => give({ data: copy }));
  };
  window.Worker = class {
    constructor(url) {
      this.frame = document.body.appendChild(document.createElement("iframe"));
      this.frame.hidden = true;
      this.inside = this.frame.contentWindow;
      this.inside.postMessage = (data) => later((said) => this.onmessage && this.onmessage(said), data);
      this.ready = new Promise((done, failed) => {
        const script = this.inside.document.createElement("script");
        script.src = url;
        script.onload = done;
        script.onerror = failed;
        this.inside.document.body.appendChild(script);
      });
      this.ready.catch((error) => this.onerror && this.onerror(error));
    }
    postMessage(data) {
      this.ready.then(() => later((asked) => this.inside.onmessage(asked), data));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
