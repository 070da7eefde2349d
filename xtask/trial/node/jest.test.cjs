// Below Jest, which gives each test file a realm of its own.
const { Document, TenureError, lockSync } = require('tenure');

test('the package works in a second realm', () => {
  new Document('jest.json').setSync({ n: 1 });
  expect(new Document('jest.json').readSync().value).toEqual({ n: 1 });
  const guard = lockSync('jest');
  let caught;
  try {
    lockSync('jest', { waitMs: 0 });
  } catch (error) {
    caught = error;
  }
  guard.releaseSync();
  expect(caught).toBeInstanceOf(TenureError);
  expect(['busy', 'deadlock']).toContain(caught.code);
});
