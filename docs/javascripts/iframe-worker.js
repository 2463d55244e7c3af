/* Search of a page that was opened from a folder: browsers start no worker there, so its script runs in a hidden frame. */
if (location.protocol === "file:") {
  window.Worker = class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      // what the script posts arrives here; it is not posted to the frame itself
      this.inside.postMessage = (data) =>
        setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      script.onload = () => {
        this.ready = true;
        this.waiting.splice(0).forEach((data) => this.postMessage(data));
      };
      frame.contentDocument.body.appendChild(script);
    }
    postMessage(data) {
      if (!this.ready) this.waiting.push(data);
      else setTimeout(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
