// A hook in the manner of ECC GateGuard: the first use of a file in a session is denied with a question,
// the second is allowed. Claude Code starts a new process per tool call, often several at once.
//
// Before:  const { isChecked, markChecked } = require('./gateguard-state');   // lost updates
// After:   const { isChecked, markChecked } = require('tenure/compat/gateguard-state');
//
//   echo '{"session_id":"s","tool_input":{"file_path":"a.ts"}}' | node hook.cjs

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
process.stdin.on('end', () => {
  let input;
  try {
    input = JSON.parse(text);
  } catch (error) {
    console.error(`usage: node hook.cjs < INPUT.json, the input of a hook: ${error.message}`);
    process.exitCode = 2;
    return;
  }
  console.log(JSON.stringify(decide(input)));
});
