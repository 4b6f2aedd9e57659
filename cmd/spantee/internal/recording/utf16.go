package recording

import (
	"bufio"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// fromUTF16 returns the contents of a file as UTF-8. PowerShell 5.1 writes UTF-16, with a mark at
// the beginning.
func fromUTF16(in *bufio.Reader) *bufio.Reader {
	switch mark, _ := in.Peek(2); string(mark) {
	case "\xff\xfe":
		return bufio.NewReaderSize(&utf16Reader{in: in}, headSize)
	case "\xfe\xff":
		return bufio.NewReaderSize(&utf16Reader{in: in, bigEndian: true}, headSize)
	}
	return in
}

// A utf16Reader reads UTF-16 as UTF-8.
type utf16Reader struct {
	in        *bufio.Reader
	bigEndian bool
	out       []byte // that was not read yet
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	for len(u.out) == 0 {
		var chunk [2 << 10]byte
		n, err := io.ReadFull(u.in, chunk[:])
		var units []uint16
		for i := 0; i+1 < n; i += 2 {
			units = append(units, u.unit(chunk[i], chunk[i+1]))
		}
		if k := len(units); k > 0 && utf16.IsSurrogate(rune(units[k-1])) && err == nil { // its other half follows
			if next, _ := u.in.Peek(2); len(next) == 2 {
				units = append(units, u.unit(next[0], next[1]))
				_, _ = u.in.Discard(2)
			}
		}
		for _, r := range utf16.Decode(units) {
			u.out = utf8.AppendRune(u.out, r)
		}
		if n == 0 {
			return 0, err
		}
	}
	n := copy(p, u.out)
	u.out = u.out[n:]
	return n, nil
}

func (u *utf16Reader) unit(a, b byte) uint16 {
	if u.bigEndian {
		a, b = b, a
	}
	return uint16(a) | uint16(b)<<8
}
