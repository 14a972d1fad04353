package kafka

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// isoDuration parses what java.time.Duration.parse takes, without signs: PnDTnHnMn.nS.
func isoDuration(text string) (time.Duration, error) {
	pattern := regexp.MustCompile(`(?i)^P(?:(\d{1,6})D)?(?:T(?:(\d{1,7})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?$`)
	m := pattern.FindStringSubmatch(text)
	if m == nil || m[1]+m[2]+m[3]+m[4] == "" {
		return 0, fmt.Errorf("%q is no duration such as P1DT2H30M", text)
	}
	var total time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.ParseFloat(m[i+1], 64)
		if err != nil || n*float64(unit) > float64(1<<62) {
			return 0, fmt.Errorf("%q is too long a duration", text)
		}
		total += time.Duration(n * float64(unit))
	}
	return total, nil
}
