// Tells about the tests in the words of cargo, so that one program can count them all.

export default async function* reporter(events) {
  let passed = 0;
  let failed = 0;
  for await (const { type, data } of events) {
    if (type === 'test:diagnostic' && data.nesting === 0 && !/^\w+ [\d.]+$/.test(data.message)) {
      yield `     ${data.message}\n`;
    }
    // Each file is reported as a test too, when it fails as a whole.
    if (type === 'test:pass') {
      passed++;
      yield `test ${data.name} ... ok\n`;
    }
    if (type === 'test:fail') {
      failed++;
      const { cause = data.details.error } = data.details.error;
      yield `test ${data.name} ... FAILED (${data.file})\n${cause?.stack ?? cause}\n`;
    }
    if (type === 'test:stderr' || type === 'test:stdout') yield data.message;
  }
  yield `\ntest result: ${failed === 0 ? 'ok' : 'FAILED'}. ${passed} passed; ${failed} failed\n`;
}
