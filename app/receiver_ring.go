package main

// ring keeps the last limit items pushed to it, under numbers that go up from 1 and are never given twice.
type ring[T any] struct {
	limit int
	items []T
	base  uint64 // the number of items[0] before it was first overwritten
	next  uint64
}

func newRing[T any](limit int) *ring[T] { return &ring[T]{limit: limit, base: 1, next: 1} }

func (r *ring[T]) push(item T) uint64 {
	n := r.next
	if i := r.index(n); i < len(r.items) {
		r.items[i] = item
	} else {
		r.items = append(r.items, item)
	}
	r.next++
	return n
}

// get returns nil for what has been dropped.
func (r *ring[T]) get(n uint64) *T {
	if n < r.first() || n >= r.next {
		return nil
	}
	return &r.items[r.index(n)]
}

func (r *ring[T]) first() uint64 { return r.next - uint64(len(r.items)) }

func (r *ring[T]) full() bool { return len(r.items) == r.limit }

func (r *ring[T]) reset() { r.items, r.base = nil, r.next }

func (r *ring[T]) index(n uint64) int { return int((n - r.base) % uint64(r.limit)) }

// remembered is a map of at most limit keys: a new one pushes out the oldest.
type remembered[K comparable, V any] struct {
	values map[K]*V
	order  *ring[K]
}

func newRemembered[K comparable, V any](limit int) *remembered[K, V] {
	return &remembered[K, V]{values: map[K]*V{}, order: newRing[K](limit)}
}

// touch returns the value of key, a zero one where the key is new.
func (m *remembered[K, V]) touch(key K) (value *V, isNew bool) {
	if value, ok := m.values[key]; ok {
		return value, false
	}
	if m.order.full() {
		delete(m.values, *m.order.get(m.order.first()))
	}
	m.order.push(key)
	value = new(V)
	m.values[key] = value
	return value, true
}

func (m *remembered[K, V]) reset() {
	m.values = map[K]*V{}
	m.order.reset()
}
