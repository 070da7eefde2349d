/** Replaces a file as a whole. */
declare function writeFile(filename: string, data: writeFile.Data, options?: writeFile.Options): Promise<void>;
declare function writeFile(
  filename: string,
  data: writeFile.Data,
  options: writeFile.Options | undefined,
  callback: (error?: Error) => void,
): Promise<void>;
declare function writeFile(filename: string, data: writeFile.Data, callback: (error?: Error) => void): Promise<void>;

declare namespace writeFile {
  /** `undefined` and `null` are an empty file. */
  type Data = string | NodeJS.ArrayBufferView | undefined | null;
  type Options =
    | BufferEncoding
    | {
        /** Of the new file; that of the old one by default. */
        mode?: number | string | false;
        chown?: { uid: number; gid: number } | false;
        encoding?: BufferEncoding;
        /** False: return without waiting for the disk. */
        fsync?: boolean;
        /** Its promise is waited for, and its rejection is that of the write. */
        tmpfileCreated?: (tmpfile: string) => void | Promise<void>;
      };
  function sync(filename: string, data: Data, options?: Options): void;
}

export = writeFile;
