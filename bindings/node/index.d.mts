export * from './index.cjs';
import * as tenure from './index.cjs';
export default tenure;
