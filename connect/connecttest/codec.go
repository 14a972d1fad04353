package connecttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/weirlog/weir/connect"
)

// JSON makes data that is still encoded as JSON without schemas, as a sink reads it from the log; nil text is null.
func JSON(text []byte) connect.Data { return connect.EncodedData(text, codecOf("json")) }

// codecOf gives the decoders that the suite knows: JSON without schemas.
func codecOf(format string) *connect.Codec {
	if format != "json" {
		return nil
	}
	return &connect.Codec{Format: "json", Decode: func(b []byte) (*connect.Schema, connect.Value, error) {
		dec := json.NewDecoder(bytes.NewReader(b))
		dec.UseNumber()
		v, err := readValue(dec)
		if err == nil && dec.More() {
			err = fmt.Errorf("more after the value")
		}
		return nil, v, err
	}}
}

func readValue(dec *json.Decoder) (connect.Value, error) {
	tok, err := dec.Token()
	if err != nil {
		return connect.Value{}, err
	}
	switch t := tok.(type) {
	case bool:
		return connect.BoolValue(t), nil
	case string:
		return connect.StringValue(t), nil
	case json.Number:
		if n, err := strconv.ParseInt(t.String(), 10, 64); err == nil {
			return connect.Int64Value(n), nil
		}
		f, err := t.Float64()
		return connect.Float64Value(f), err
	case json.Delim:
		return readList(dec, t)
	}
	return connect.Value{}, nil
}

func readList(dec *json.Decoder, open json.Delim) (connect.Value, error) {
	var items []connect.Value
	for dec.More() {
		v, err := readValue(dec)
		if err != nil {
			return connect.Value{}, err
		}
		items = append(items, v)
	}
	if _, err := dec.Token(); err != nil {
		return connect.Value{}, err
	}
	if open == '{' {
		return connect.MapValue(items), nil
	}
	return connect.ArrayValue(items), nil
}
