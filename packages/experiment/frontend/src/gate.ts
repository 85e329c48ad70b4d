// While an image is flashed, nothing else may use CPU time: work waits here until the gate opens.

export class Gate {
  private waiting: (() => void)[] = [];
  private closed = false;

  close(): void {
    this.closed = true;
  }

  open(): void {
    this.closed = false;
    for (const go of this.waiting.splice(0)) go();
  }

  /** Wait until the gate is open. */
  async passed(): Promise<void> {
    while (this.closed) await new Promise<void>((resolve) => this.waiting.push(resolve));
  }
}
