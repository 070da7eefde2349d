// Below Jest, which gives each test file a realm of its own.
const { Document, TenureError, lockSync } = require('tenure');

test('the package works in a second realm', () => {
  new Document('jest.json').setSync({ n: 1 });
  expect(new Document('jest.json').readSync().value).toEqual({ n: 1 });
  let caught;
  try {
    new Document('no/such/directory/state.json').setSync(1);
  } catch (error) {
    caught = error;
  }
  expect(caught).toBeInstanceOf(TenureError);
  expect(typeof caught.code).toBe('string');
  lockSync('jest').releaseSync();
});
