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
			var in []byte
			for _, unit := range utf16.Encode([]rune(want)) {
				in = order.AppendUint16(in, unit)
			}
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
