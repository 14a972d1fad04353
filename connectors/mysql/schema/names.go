package schema

import "strings"

// sameName compares identifiers that MySQL always compares without regard to case:
// columns and indices. (Tables and databases depend on the server.)
func sameName(a, b string) bool { return strings.EqualFold(a, b) }
