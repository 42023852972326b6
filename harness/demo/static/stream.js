// The events of a run, as the server tells them: all that were, then those that come.

export class Stream {
  /**
   * @param runId the run.
   * @param on what to call: `hello(run)`, `event(event)`, `bye(run)`, `lost()`.
   */
  constructor(runId, on) {
    this.source = new EventSource(`/api/runs/${runId}/events`);
    this.source.addEventListener("hello", (message) => on.hello(JSON.parse(message.data)));
    this.source.addEventListener("message", (message) => on.event(JSON.parse(message.data)));
    this.source.addEventListener("bye", (message) => {
      this.close();
      on.bye(JSON.parse(message.data));
    });
    this.source.addEventListener("error", () => {
      // A cut connection is taken up again by the browser, from the last event on; a refused one is not.
      if (this.source.readyState === EventSource.CLOSED) on.lost();
    });
  }

  close() {
    this.source.close();
  }
}
