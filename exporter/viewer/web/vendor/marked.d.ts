// What the page uses of marked.js.
interface Cell { tokens: Token[] }
declare global {
  interface Token {
    type: string; raw: string; text?: string; tokens?: Token[]; href?: string; lang?: string;
    depth?: number; ordered?: boolean; start?: number | ""; items?: Token[]; task?: boolean; checked?: boolean; header?: Cell[]; rows?: Cell[][];
  }
}
export function lexer(text: string, options: { breaks: boolean; gfm: boolean }): Token[];
