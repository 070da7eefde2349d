'use strict';

// One procedure for a synchronous and an asynchronous call: a generator that yields what has to be waited for.

/** Waits for what each step yields. */
async function later(steps) {
  let step = steps.next();
  while (!step.done) {
    let value;
    try {
      value = await step.value;
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(value);
  }
  return step.value;
}

/** Waits for nothing: each step goes on with what it yielded. */
function now(steps) {
  let step = steps.next();
  while (!step.done) step = steps.next(step.value);
  return step.value;
}

module.exports = { later, now };
