package convert

// cache keeps at most about max entries (and, with weights, max weight) in two generations: what was used since the
// younger began survives its end. Finding the last key again costs one comparison. The zero cache is not usable.
type cache[K comparable, V any] struct {
	maxEntries int // per generation
	maxWeight  int // per generation
	weight     int // of young
	young, old map[K]cached[V]

	lastKey K
	last    V
	valid   bool
}

type cached[V any] struct {
	value  V
	weight int
}

func newCache[K comparable, V any](maxEntries, maxWeight int) *cache[K, V] {
	return &cache[K, V]{maxEntries: max(maxEntries/2, 1), maxWeight: max(maxWeight/2, 1), young: map[K]cached[V]{}}
}

func (c *cache[K, V]) get(k K) (V, bool) {
	if c.valid && c.lastKey == k {
		return c.last, true
	}
	e, ok := c.young[k]
	if !ok {
		if e, ok = c.old[k]; ok {
			c.put(k, e.value, e.weight)
		}
		return e.value, ok
	}
	c.lastKey, c.last, c.valid = k, e.value, true
	return e.value, true
}

func (c *cache[K, V]) put(k K, v V, weight int) {
	if len(c.young) >= c.maxEntries || c.weight > c.maxWeight {
		c.young, c.old, c.weight = map[K]cached[V]{}, c.young, 0
	}
	c.young[k] = cached[V]{v, weight}
	c.weight += weight
	c.lastKey, c.last, c.valid = k, v, true
}

// len counts the entries of both generations.
func (c *cache[K, V]) len() int { return len(c.young) + len(c.old) }
