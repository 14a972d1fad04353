package convert

import "github.com/weirlog/weir/connect"

// classes is the table of all converters. Where a Java class is both a converter and a header converter it stands twice.
func classes() []class {
	return nil
}

var _ = connect.Null
