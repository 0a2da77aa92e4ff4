// Waiting for something to become true: asked again and again until a deadline, never slept for.

/** The first truthy answer of `ask`, which may be asynchronous. Fails with `what` when there is none in time. */
export async function until(what, ask, { within = 10_000, every = 5 } = {}) {
  const deadline = Date.now() + within;
  let last;
  for (;;) {
    try {
      const answer = await ask();
      if (answer) return answer;
      last = undefined;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline) {
      const seen = typeof what === "function" ? what() : what;
      throw new Error(`not within ${within} ms: ${seen}${last ? ` (${last.message})` : ""}`, { cause: last });
    }
    await new Promise((resolve) => setTimeout(resolve, every));
  }
}

/** The answer of `promise`, or a failure naming `what` when it takes too long. */
export async function inTime(what, promise, within = 15_000) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${within} ms: ${what}`)), within);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
