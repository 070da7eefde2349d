// A hook in the manner of ECC GateGuard: the first use of a file in a session is denied with a question,
// the second is allowed. Claude Code starts a new process per tool call, often several at once.
//
// Before:  const { isChecked, markChecked } = require('./gateguard-state');   // lost updates
// After:   const { isChecked, markChecked } = require('tenure/compat/gateguard-state');

const { isChecked, markChecked, useSession } = require('tenure/compat/gateguard-state');

function decide(input) {
  useSession(input);
  const file = input.tool_input?.file_path;
  if (!file || isChecked(file)) return { decision: 'allow' };
  if (!markChecked(file)) {
    console.error('gateguard: the state could not be saved; not standing in the way');
    return { decision: 'allow' };
  }
  return { decision: 'deny', reason: `Say which callers of ${file} this change affects, then try again.` };
}

let text = '';
process.stdin.setEncoding('utf8');
process.stdin.on('data', (piece) => (text += piece));
process.stdin.on('end', () => console.log(JSON.stringify(decide(JSON.parse(text)))));
