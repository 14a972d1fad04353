package value

import (
	"math"
	"strconv"
	"strings"

	"github.com/weirlog/weir/connect"
	"github.com/weirlog/weir/connectors/debezium"
	"github.com/weirlog/weir/connectors/mysql/schema"
)

// finishSchema sets whether the schema is optional, its default, and what stands for values that are none.
func (c *Codec) finishSchema(column *schema.Column) {
	c.Schema.Optional = column.Optional
	if column.Optional {
		c.missing = connect.Value{}
		c.Schema.Default = c.defaultOf(column)
		return
	}
	c.missing = c.zero()
	if d := c.defaultOf(column); d != nil {
		c.Schema.Default, c.missing = d, *d
	}
}

// zero is what stands for a required value that is none: the epoch of dates.
func (c *Codec) zero() connect.Value {
	if c.Schema.Type == connect.String {
		switch c.op {
		case opDate:
			return connect.StringValue("1970-01-01Z")
		case opDateTime, opTimestamp:
			return connect.StringValue("1970-01-01T00:00:00Z")
		case opTime:
			return connect.StringValue("00:00:00Z")
		}
	}
	return debezium.ZeroValue(c.Schema)
}

// defaultOf gives a column's default as a value, nil for none. A default that the server computes is none, but for
// CURRENT_TIMESTAMP, which is the epoch. One that can't be read is none too: it is not worth a stop.
func (c *Codec) defaultOf(column *schema.Column) *connect.Value {
	if !column.HasDefault || column.Default == nil {
		return nil
	}
	var a debezium.Arena // the default lives as long as the schema
	v, ok := c.literal(strings.TrimSpace(*column.Default), *column.Default, column, &a)
	if !ok || v.IsNull() {
		return nil
	}
	v = v.Clone()
	return &v
}

// literal reads a default's text; exact has its blanks too.
func (c *Codec) literal(text, exact string, column *schema.Column, a *debezium.Arena) (connect.Value, bool) {
	switch c.op {
	case opText, opJSON, opEnum, opSet, opUUID, opInet4, opInet6:
		return connect.StringValue(exact), true
	case opBinary:
		raw := []byte(exact)
		for column.Kind == schema.Binary && len(raw) < column.Length {
			raw = append(raw, 0)
		}
		return debezium.BinaryValue(c.binary, raw, a), true
	case opBits:
		return c.literalBits(text, a)
	case opInteger:
		return c.literalInteger(text)
	case opWide, opDecimal:
		rounded, ok := roundDecimal(text, c.scale)
		if !ok {
			return connect.Value{}, false
		}
		v, err := c.decimalValue(rounded)
		return v, err == nil
	case opGeometry, opPoint, opVector, opSkip:
		return connect.Value{}, false
	case opDate, opDateTime, opTimestamp, opTime:
		if isNow(text) {
			return c.now(column)
		}
	}
	v, err := c.decodeText([]byte(text), a)
	return v, err == nil
}

// isNow says whether a default is CURRENT_TIMESTAMP, for which package schema, as Debezium, has the epoch.
func isNow(text string) bool {
	return text == "1970-01-01 00:00:00" || strings.HasPrefix(strings.ToUpper(text), "CURRENT_TIMESTAMP")
}

// now is the default CURRENT_TIMESTAMP: the epoch, but none for a TIMESTAMP that may be null.
func (c *Codec) now(column *schema.Column) (connect.Value, bool) {
	if c.op == opTimestamp && column.Optional {
		return connect.Value{}, false
	}
	return c.zero(), true
}

func (c *Codec) literalInteger(text string) (connect.Value, bool) {
	switch strings.ToUpper(text) {
	case "TRUE":
		return connect.IntValue(c.number, 1), true
	case "FALSE":
		return connect.IntValue(c.number, 0), true
	}
	rounded, ok := roundDecimal(text, 0)
	if !ok {
		return connect.Value{}, false
	}
	n, err := strconv.ParseInt(rounded, 10, 64)
	if err != nil && !strings.HasPrefix(rounded, "-") {
		n = math.MaxInt64 // Debezium's default of a BIGINT UNSIGNED that a long can't hold
	}
	return connect.IntValue(c.number, n), true
}

// literalBits reads the binary digits of b'101', or 0 and 1.
func (c *Codec) literalBits(text string, a *debezium.Arena) (connect.Value, bool) {
	text = strings.Trim(strings.TrimLeft(text, "bB"), "'")
	n, err := strconv.ParseUint(text, 2, 64)
	if err != nil {
		return connect.Value{}, false
	}
	length := 1
	if p := c.Schema.Param("length"); p != "" {
		length, _ = strconv.Atoi(p) // written by bitKind
	}
	raw := make([]byte, (length+7)/8)
	for i := range raw {
		raw[len(raw)-1-i] = byte(n >> (8 * i))
	}
	v, err := c.bits(raw, a)
	return v, err == nil
}

// roundDecimal gives a decimal literal with exactly scale fraction digits, rounded half away from zero as the server
// stores it. An exponent is not read.
func roundDecimal(text string, scale int) (string, bool) {
	digits := strings.TrimLeft(text, "+-")
	whole, part, _ := strings.Cut(digits, ".")
	if whole == "" {
		whole = "0"
	}
	if len(text)-len(digits) > 1 || !isInteger([]byte(whole)) || part != "" && !isInteger([]byte(part)) {
		return "", false
	}
	up := len(part) > scale && part[scale] >= '5'
	part = (part + strings.Repeat("0", scale))[:scale]
	all := []byte(strings.TrimLeft(whole, "0") + part)
	for len(all) <= scale {
		all = append([]byte{'0'}, all...)
	}
	for i := len(all) - 1; up && i >= 0; i-- {
		if all[i]++; all[i] <= '9' {
			up = false
		} else {
			all[i] = '0'
		}
	}
	if up {
		all = append([]byte{'1'}, all...)
	}
	out := string(all[:len(all)-scale])
	if scale > 0 {
		out += "." + string(all[len(all)-scale:])
	}
	if strings.HasPrefix(text, "-") && strings.Trim(out, "0.") != "" {
		out = "-" + out
	}
	return out, true
}
