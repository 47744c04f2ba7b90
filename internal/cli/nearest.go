package cli

import "strings"

// nearest gives the word that typed most likely stood for, or "".
func nearest(typed string, words []string) string {
	best, bestDistance := "", 1+max(1, len(typed)/3)
	for _, w := range words {
		d := distance(typed, w)
		if len(typed) > 1 && strings.HasPrefix(w, typed) {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = w, d
		}
	}
	return best
}

// didYouMean ends a message about an unknown word.
func didYouMean(near, otherwise string) string {
	if near == "" {
		return "; " + otherwise
	}
	return "; did you mean " + near + "?"
}

// distance counts the letters to insert, drop, replace or swap with their neighbour to turn a into b.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
