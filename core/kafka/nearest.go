package kafka

// Nearest returns the known key that key was most probably meant to be, or "" if none is
// near: at most a third of its letters differ (insertions, deletions, replacements and
// swapped neighbours). Of equally near keys the first in known wins.
func Nearest(key string, known []string) string {
	const maxKeyLen = 256 // longer keys are no misspelling; bounds the work for hostile input
	if len(key) > maxKeyLen {
		return ""
	}
	best, bestDistance := "", max(len(key)/3, 1)+1
	for _, candidate := range known {
		if diff := len(candidate) - len(key); diff >= bestDistance || -diff >= bestDistance {
			continue
		}
		if d := editDistance(key, candidate); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// editDistance is the restricted Damerau-Levenshtein distance over bytes.
func editDistance(a, b string) int {
	before, prev, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev, row = prev, row, before
	}
	return prev[len(b)]
}
