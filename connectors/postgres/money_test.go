package postgres

import (
	"testing"

	"github.com/weirlog/weir/connectors/debezium"
)

// Debezium rounds money half up, away from zero, when money.fraction.digits cuts digits off.
func TestMoneyIsRounded(t *testing.T) {
	for _, test := range []struct {
		text   string
		digits int
		want   string
	}{
		{"$1,234.56", 2, "1234.56"},
		{"$1,234.56", 1, "1234.6"},
		{"$1,234.54", 1, "1234.5"},
		{"-$1,234.56", 1, "-1234.6"},
		{"$9.99", 1, "10.0"},
		{"-$99.95", 1, "-100.0"},
		{"$0.49", 0, "0"},
		{"$0.50", 0, "1"},
		{"$999.50", 0, "1000"},
		{"$0.05", 0, "0"},
	} {
		c := &codec{kind: codecMoney, digits: test.digits, mode: "string"}
		got, err := c.money([]byte(test.text), &debezium.Arena{})
		if err != nil || got.Str() != test.want {
			t.Errorf("%s with %d digits: %q, %v; want %q", test.text, test.digits, got.Str(), err, test.want)
		}
	}
}
