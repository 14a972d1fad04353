package debezium

import (
	"encoding/base64"
	"encoding/hex"

	"github.com/weirlog/weir/connect"
)

// BinaryBytes is the binary.handling.mode that gives bytes; the others give text.
const BinaryBytes = "bytes"

// BinarySchema gives the schema of bytes in a binary.handling.mode.
func BinarySchema(mode string) *connect.Schema {
	if mode == BinaryBytes {
		return PlainSchema(connect.Bytes)
	}
	return PlainSchema(connect.String)
}

// BinaryValue gives bytes in a binary.handling.mode; it may share raw.
func BinaryValue(mode string, raw []byte, a *Arena) connect.Value {
	if mode == BinaryBytes {
		return connect.BytesValue(raw)
	}
	return connect.StringValue(EncodeBinary(mode, raw, a))
}

// EncodeBinary gives the text of bytes in one of the text modes.
func EncodeBinary(mode string, raw []byte, a *Arena) string {
	enc := base64.StdEncoding
	switch mode {
	case "base64-url-safe":
		enc = base64.URLEncoding
	case "hex":
		n := hex.EncodedLen(len(raw))
		out := a.Scratch(n)[:n]
		hex.Encode(out, raw)
		return a.KeepString(out)
	}
	n := enc.EncodedLen(len(raw))
	out := a.Scratch(n)[:n]
	enc.Encode(out, raw)
	return a.KeepString(out)
}
