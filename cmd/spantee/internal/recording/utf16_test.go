package recording

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"unicode/utf16"
)

func TestUTF16(t *testing.T) {
	text := strings.Repeat(`{"text":"état 🙂"}`+"\n", 500)
	for shift := range 4 { // so that a chunk ends in each half of a character
		want := "\ufeff" + strings.Repeat(" ", shift) + text
		for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
			in := utf16Of(want, order)
			got, err := io.ReadAll(fromUTF16(bufio.NewReader(bytes.NewReader(in))))
			if err != nil || string(got) != want {
				t.Errorf("%v, shift %d: %d bytes, want %d; %v", order, shift, len(got), len(want), err)
			}
		}
		if got, _ := io.ReadAll(fromUTF16(bufio.NewReader(strings.NewReader(want)))); string(got) != want {
			t.Error("UTF-8 is changed")
		}
	}
}

// utf16Of returns text in UTF-16.
func utf16Of(text string, order binary.AppendByteOrder) (b []byte) {
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return b
}
