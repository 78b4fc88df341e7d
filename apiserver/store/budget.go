package store

import (
	"sync"
	"sync/atomic"
)

// The names of the parts of a budget.
const (
	PartWatchLogs = "watch_logs" // replaced and deleted objects in the watch logs, and the events
	PartPages     = "pages"      // objects that only pinned snapshots have, for the pages of lists
	PartMemos     = "memos"      // results of Object.Memo and Event.Memo
)

// minBudget is the smallest automatic budget: several minutes of the events of a small server, and
// the encodings that its watches share.
const minBudget = 32 << 20

// AutomaticBudget returns the budget of a store whose live objects need a number of bytes: a
// quarter of that, and at least 32 MiB.
func AutomaticBudget(live int64) int64 { return max(minBudget, live/4) }

// budget limits the memory of everything that a store can do without: events, which a client
// replaces with a new list; the pages of lists, which a client begins again; and memos, which are
// computed again. There are two halves:
//
//	│ history: watch logs, pages      │ memos                │
//	└ guarded by Store.mu             └ guarded by cache.mu  ┘
//
// Each may use what the other leaves, and at least half. Publications evict history, in steps that
// are as large as the chunks of logs, and results of Memo evict memos. Within the history, the
// larger of the two parts is evicted first: the oldest chunk of the largest log, or the oldest pin.
// Of the memos, those are evicted first that were not used since the last pass (see cache).
//
// Each log keeps a minimum (minKept), so that readers that follow live do not depend on the traffic
// of other resources. The minimum is outside of the limit.
type budget struct {
	limitOf func(live int64) int64

	limit   atomic.Int64
	live    atomic.Int64 // of the newest state
	logs    atomic.Int64 // written under Store.mu, as pages
	pages   atomic.Int64
	evicted struct{ logs, pages atomic.Uint64 }
	memos   cache

	// trim evicts history. It is nil if the store has no writers any more.
	trim atomic.Pointer[func()]
}

func newBudget(limitOf func(live int64) int64) *budget {
	if limitOf == nil {
		limitOf = AutomaticBudget
	}
	return &budget{limitOf: limitOf}
}

// resize adapts the limit to the size of the live objects.
func (b *budget) resize(live int64) {
	b.live.Store(live)
	b.limit.Store(max(b.limitOf(live), 0))
}

// history returns the size of the logs and pages.
func (b *budget) history() int64 { return b.logs.Load() + b.pages.Load() }

// forHistory returns how many bytes the logs and pages may have, and forMemos how many the memos.
func (b *budget) forHistory() int64 {
	limit := b.limit.Load()
	return max(limit-b.memos.used.Load(), limit/2)
}

func (b *budget) forMemos() int64 {
	limit := b.limit.Load()
	return max(limit-b.history(), limit/2)
}

// grown is called when a memo has grown. The caller holds no lock.
func (b *budget) grown() {
	if b.memos.used.Load()+b.history() <= b.limit.Load() {
		return
	}
	b.evictMemos()
	// Memos may have up to half of the budget. The history that was in that half gives way.
	if b.history() > b.forHistory() {
		if trim := b.trim.Load(); trim != nil {
			(*trim)()
		}
	}
}

// evictMemos evicts memos if they have more than they may. The caller holds no lock.
func (b *budget) evictMemos() {
	if limit := b.forMemos(); b.memos.used.Load() > limit {
		b.memos.evict(limit)
	}
}

// cache holds the memos that have results, oldest first. An eviction gives each memo that was used
// since the last one a second chance, as the clock algorithm does: so a use sets a mark, and does
// not move the memo.
//
// A memo is in a cache only while its object or event is reachable through the store: it is sealed
// when that ends. Otherwise the cache would keep the object in memory.
//
// Locks are taken in the order Store.mu, cache.mu, memo.mu.
type cache struct {
	used    atomic.Int64 // bytes of all results; written under mu
	evicted atomic.Uint64

	mu     sync.Mutex
	length int
	first  *results // oldest
	last   *results
}

// results are the results of one memo.
type results struct {
	list   []result
	bytes  int64 // of the list; guarded by memo.mu, as list and recent
	recent bool  // used since the last eviction

	// guarded by cache.mu
	memo       *memo
	charged    int64 // bytes, as counted in the cache
	linked     bool
	prev, next *results
}

// result is one result of Memo.
type result struct{ key, value any }

// settle adds a memo with new results to the cache, or adapts its size.
func (c *cache) settle(m *memo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.mu.Lock()
	r, bytes := m.results, int64(0)
	if r != nil {
		bytes = r.bytes
	}
	m.mu.Unlock()
	if r == nil {
		return // sealed or evicted in the meantime
	}
	if !r.linked {
		r.memo = m
		c.push(r)
	}
	c.used.Add(bytes - r.charged)
	r.charged = bytes
}

// remove removes the results of a sealed memo.
func (c *cache) remove(r *results) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.linked {
		c.unlink(r)
		c.used.Add(-r.charged)
		r.charged = 0
	}
}

// evict removes results until at most limit bytes are left.
func (c *cache) evict(limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for steps := 2 * c.length; steps > 0 && c.used.Load() > limit; steps-- {
		r := c.first
		c.unlink(r)
		if !r.memo.drop(r) {
			c.push(r)
			continue
		}
		c.used.Add(-r.charged)
		r.charged = 0
		c.evicted.Add(1)
	}
}

func (c *cache) push(r *results) {
	r.linked, r.prev, r.next = true, c.last, nil
	if c.last != nil {
		c.last.next = r
	} else {
		c.first = r
	}
	c.last = r
	c.length++
}

func (c *cache) unlink(r *results) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		c.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		c.last = r.prev
	}
	r.linked, r.prev, r.next = false, nil, nil
	c.length--
}

// BudgetStats describes the budget of a store; see [Config].
type BudgetStats struct {
	Limit int64 // bytes of all parts together
	Live  int64 // bytes of the live objects, which are not a part
	Parts []BudgetPart
}

// BudgetPart is the use of a part of the budget.
type BudgetPart struct {
	Name    string
	Bytes   int64
	Limit   int64  // how many bytes the part may have now, while others use what they do
	Evicted uint64 // events, pins, or objects and events whose memos were evicted
}

func (b *budget) stats() BudgetStats {
	logs, pages := b.logs.Load(), b.pages.Load()
	history := b.forHistory()
	return BudgetStats{
		Limit: b.limit.Load(),
		Live:  b.live.Load(),
		Parts: []BudgetPart{
			{PartWatchLogs, logs, max(history-pages, 0), b.evicted.logs.Load()},
			{PartPages, pages, max(history-logs, 0), b.evicted.pages.Load()},
			{PartMemos, b.memos.used.Load(), b.forMemos(), b.memos.evicted.Load()},
		},
	}
}
