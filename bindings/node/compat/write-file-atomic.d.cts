/** Replaces a file as a whole. */
declare function writeFile(filename: string, data: writeFile.Data, options?: writeFile.Options): Promise<void>;
declare function writeFile(
  filename: string,
  data: writeFile.Data,
  options: writeFile.Options | undefined,
  callback: (error?: Error) => void,
): void;
declare function writeFile(filename: string, data: writeFile.Data, callback: (error?: Error) => void): void;

declare namespace writeFile {
  type Data = string | NodeJS.ArrayBufferView;
  type Options =
    | BufferEncoding
    | {
        /** Of the new file; that of the old one by default. */
        mode?: number | false;
        chown?: { uid: number; gid: number } | false;
        encoding?: BufferEncoding;
        /** False: return without waiting for the disk. */
        fsync?: boolean;
        tmpfileCreated?: (tmpfile: string) => void;
      };
  function sync(filename: string, data: Data, options?: Options): void;
}

export = writeFile;
