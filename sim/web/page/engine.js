// penstock-sim in workers: the page asks by command line, as a terminal does, and never waits itself. `penstock_program` is
// what the build made: {worker: source, wasm: base64}.
'use strict';
{
  const MOST_WORKERS = 2;       // one that answers, one that looks further
  const RUNS_OF_A_WORKER = 40;  // then a fresh one: a browser keeps the memory of ended programs for a while

  /// Thrown by `run` when its signal is aborted.
  class Stopped extends Error {}

  class Engine {
    constructor() {
      this.source = URL.createObjectURL(new Blob([penstock_program.worker], {type: 'text/javascript'}));
      this.module = null;  // once the first worker has compiled it
      this.idle = [];
      this.workers = 0;
      this.waiting = [];
    }

    /// Runs the program in `folder`, after which a config.json in it is named, with `files` in it. What it wrote comes back: {code, out, err, files, seconds}. A run
    /// whose `signal` is aborted ends at once.
    run(argv, {files = {}, folder = '/your-model', signal = null, progress = () => {}} = {}) {
      return new Promise((done, refused) => {
        const job = {argv, files, folder, signal, progress, done, refused};
        signal?.addEventListener('abort', () => this.stop(job), {once: true});
        this.waiting.push(job);
        this.next();
      });
    }

    stop(job) {
      this.waiting = this.waiting.filter(other => other !== job);
      if (job.worker) this.end(job.worker);
      job.refused(new Stopped('stopped'));
      this.next();
    }

    end(worker) {
      worker.terminate();
      --this.workers;
    }

    next() {
      if (this.waiting.length === 0) return;
      let worker = this.idle.pop();
      if (!worker) {
        // The others wait until it is compiled once.
        if (this.workers >= (this.module ? MOST_WORKERS : 1)) return;
        worker = this.start();
      }
      this.give(worker, this.waiting.shift());
    }

    start() {
      const worker = new Worker(this.source);
      ++this.workers;
      worker.runs = 0;
      worker.postMessage({program: this.module || penstock_program.wasm});
      return worker;
    }

    give(worker, job) {
      job.worker = worker;
      ++worker.runs;
      const finish = (settle, value) => {
        job.worker = null;
        if (worker.runs >= RUNS_OF_A_WORKER || settle === job.refused)
          this.end(worker);
        else
          this.idle.push(worker);
        settle(value);
        this.next();
      };
      worker.onmessage = ({data}) => {
        if (data.compiled) {
          this.module = data.compiled;
          this.next();
        } else if (data.progress) {
          job.progress(data.progress);
        } else if (data.failed !== undefined) {
          finish(job.refused, new Error(data.failed));
        } else {
          finish(job.done, data);
        }
      };
      worker.onerror = event => {
        event.preventDefault();
        finish(job.refused, new Error(event.message || 'the worker could not be started'));
      };
      worker.postMessage({argv: job.argv, files: job.files, folder: job.folder});
    }
  }

  window.Engine = Engine;
  window.Stopped = Stopped;
}
