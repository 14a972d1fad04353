package mysql

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/weirlog/weir/connectors/mysql/value"
)

// TestCharsetsAreTheServers compares our conversion of the binlog's text with the server's own: all single bytes of every
// character set, every 13th code of two bytes, and some longer ones.
func TestCharsetsAreTheServers(t *testing.T) {
	eachServer(t, func(t *testing.T, d *db) {
		for _, set := range d.rows("SELECT character_set_name, maxlen FROM information_schema.character_sets WHERE character_set_name <> 'binary'") {
			name := set[0]
			var codes []string
			switch {
			case name == "ucs2":
				codes = []string{"0041", "00E9", "4E2D", "0000"}
			case name == "utf16" || name == "utf16le":
				codes = []string{"0041", "00E9", "4E2D", "D83DDE00", "3DD800DE", "0000"}
			case name == "utf32":
				codes = []string{"00000041", "00004E2D", "0001F600"}
			case strings.HasPrefix(name, "utf8"):
				codes = []string{"41", "C3A9", "E4B8AD"}
			case set[1] == "1":
				for i := range 256 {
					codes = append(codes, fmt.Sprintf("%02X", i))
				}
			default:
				for i := 0x8140; i <= 0xFFFF; i += 13 {
					codes = append(codes, fmt.Sprintf("%04X", i))
				}
				codes = append(codes, "41", "5C", "7E", "B1", "8FB0A1", "8FA2AF", "8130 8130", "8139EF30", "9030 8130")
			}
			compareCharset(t, d, name, codes)
		}
	})
}

func compareCharset(t *testing.T, d *db, name string, codes []string) {
	compared := 0
	for len(codes) > 0 {
		n := min(len(codes), 400)
		var list []string
		for _, code := range codes[:n] {
			bytes := strings.ReplaceAll(code, " ", "")
			// What is not well-formed in the set is NULL, or comes back as other bytes.
			list = append(list, fmt.Sprintf("IF(HEX(CONVERT(x'%s' USING %s)) = '%s', HEX(CONVERT(CONVERT(x'%s' USING %s) USING utf8mb4)), '-')", bytes, name, bytes, bytes, name))
		}
		row := d.rows("SELECT " + strings.Join(list, ","))[0]
		for i, code := range codes[:n] {
			raw, _ := hex.DecodeString(strings.ReplaceAll(code, " ", ""))
			want, _ := hex.DecodeString(row[i])
			if row[i] == "-" || row[i] == "" || strings.Count(string(want), "?") > 1 || len(raw) == 2 && isKana(name, raw[0]) {
				continue
			}
			compared++
			if got := value.UTF8(name, string(raw)); got != string(want) {
				t.Errorf("%s %s is %q, the server's %q", name, code, got, want)
			}
		}
		codes = codes[n:]
	}
	if compared < 3 {
		t.Errorf("only %d codes of %s were compared", compared, name)
	}
}

// isKana tells a byte that is a whole character of sjis and cp932: the server takes what follows it for one more.
func isKana(name string, b byte) bool {
	return (name == "sjis" || name == "cp932") && b >= 0xA0 && b <= 0xDF
}
