// The planner of an interactive page: the core of the program as WebAssembly.  It runs in a worker,
// so that the page answers while it plans.

// Gives ask(rows, words): what the planner answers to the words of a command line.  Calls nothing of
// the page: the worker, and whoever else reads this script, has its text alone.
async function loadedPlanner(packed) {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  let memory = null;
  const view = () => new DataView(memory.buffer);
  // What it asks of its host (WASI): the time.  There are no files, arguments or environment, and
  // messages go nowhere.
  const [kDone, kNoSuch, kNoFile] = [0, 8, -2];
  const nothing = (counts) => {
    for (const at of counts) view().setUint32(at, 0, true);
    return kDone;
  };
  const wasi = {
    clock_time_get: (...asked) => {
      view().setBigUint64(asked.at(-1), BigInt(Math.round(1e6 * performance.now())), true);
      return kDone;
    },
    environ_sizes_get: (...counts) => nothing(counts),
    environ_get: () => kDone,
    proc_exit: (status) => {
      throw new Error(`the planner ended with status ${status}`);
    },
    fd_write: (file, pieces, count, written) => {
      let size = 0;
      for (let i = 0; i < count; ++i) size += view().getUint32(pieces + 8 * i + 4, true);
      view().setUint32(written, size, true);
      return kDone;
    },
    fd_close: () => kNoSuch,
    fd_fdstat_get: () => kNoSuch,
    fd_read: () => kNoSuch,
    fd_seek: () => kNoSuch,
  };
  const env = { emscripten_notify_memory_growth: () => {}, __syscall_stat64: () => kNoFile };
  const { instance } = await WebAssembly.instantiate(await new Response(unpacked).arrayBuffer(), {
    wasi_snapshot_preview1: wasi,
    env,
  });
  const planner = instance.exports;
  memory = planner.memory;
  planner._initialize();

  const put = (text) => {
    const written = new TextEncoder().encode(`${text}\0`);
    const at = planner.malloc(written.length);
    new Uint8Array(memory.buffer, at).set(written);
    return at;
  };
  const taken = (at) => {
    const rest = new Uint8Array(memory.buffer, at);
    const text = new TextDecoder().decode(rest.subarray(0, rest.indexOf(0)));
    planner.free(at);
    return text;
  };
  return (rows, words) => {
    const given = [put(rows), put(words.join("\n"))];
    const answer = taken(planner.llmsim_plan(...given));
    given.forEach(planner.free);
    return answer;
  };
}

// In the worker: first {packed, rows}, then questions {words}.  Each answer is {answer} or {error},
// with the milliseconds that it took.
function answerQuestions() {
  let ready = null;
  onmessage = async ({ data }) => {
    if (data.packed) {
      ready = loadedPlanner(data.packed).then((ask) => (words) => ask(data.rows, words));
      return;
    }
    try {
      const ask = await ready;
      const start = performance.now();
      const text = ask(data.words);
      const milliseconds = performance.now() - start;
      if (text.startsWith("{")) postMessage({ answer: JSON.parse(text), milliseconds });
      else postMessage({ error: text, milliseconds });
    } catch (error) {
      postMessage({ error: String(error?.message ?? error) });
    }
  };
}

// Asks the worker one question at a time; of those that come meanwhile the last is asked next.
class Planner {
  constructor(packed, rows, told) {
    const script = `"use strict";${loadedPlanner};(${answerQuestions})()`;
    const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
    this.worker = new Worker(address);
    this.worker.postMessage({ packed, rows });
    this.busy = false;
    this.next = null;
    this.worker.onmessage = ({ data }) => {
      this.busy = false;
      if (this.next) this.ask(this.next);
      else told(data);
    };
    this.worker.onerror = (event) => told({ error: event.message });
  }

  ask(words) {
    this.next = null;
    if (this.busy) {
      this.next = words;
      return;
    }
    this.busy = true;
    this.worker.postMessage({ words });
  }
}
