package value

import "github.com/weirlog/weir/connectors/debezium"

// UTF8 gives text in one of the server's character sets, such as a statement's, as UTF-8; an unknown set is taken for UTF-8.
func UTF8(charset, text string) string {
	return charsetOf(charset).text([]byte(text), &debezium.Arena{})
}
