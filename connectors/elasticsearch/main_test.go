package elasticsearch

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"), // of the tests' own default client
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"))
}
