package debezium

import (
	"crypto/rand"
	"fmt"
	"strconv"

	"github.com/weirlog/weir/connect"
)

// contextHeaders make Debezium's extended headers; the run is a new one.
func contextHeaders(prefix, connector string, task int) []connect.Header {
	text := PlainSchema(connect.String)
	var headers []connect.Header
	for _, h := range [][2]string{{"connectorLogicalName", prefix}, {"taskId", strconv.Itoa(task)}, {"connectorName", connector}, {"runId", newRunID()}} {
		headers = append(headers, connect.Header{Key: "__debezium.context." + h[0], Value: connect.DataOf(text, connect.StringValue(h[1]))})
	}
	return headers
}

// newRunID makes a random UUID.
func newRunID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
