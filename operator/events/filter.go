package events

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Limits of Kubernetes' own components.
const (
	spamBurst       = 25
	spamEvery       = 5 * time.Minute
	similarMessages = 10
	similarWithin   = 10 * time.Minute
	maxRemembered   = 4096 // per generation of a memory
)

const combinedPrefix = "(combined from similar events): "

// filter has the state that limits repeated events.
type filter struct {
	budgets memory[source, budget]
	groups  memory[group, messages]
	written memory[identity, repeated]
}

type source struct {
	component string
	about     corev1.ObjectReference
}

type group struct {
	source
	eventType, reason string
}

type identity struct {
	group
	message string
}

// budget is a token bucket: next is when the next token would be available without a burst.
type budget struct{ next time.Time }

// messages are the messages of a group of events since a time.
type messages struct {
	since time.Time
	texts map[string]bool
}

// repeated is an event on the server: its name, empty if it does not exist, and its count.
type repeated struct {
	name  string
	count int32
}

// judge reports whether an event may be written, and returns the earlier event that it repeats. It
// changes the message of events to combine.
func (f *filter) judge(e *corev1.Event) (*repeated, bool) {
	now := e.LastTimestamp.Time
	g := group{source{e.Source.Component, e.InvolvedObject}, e.Type, e.Reason}
	g.about.ResourceVersion = ""

	similar := f.groups.entry(g)
	if similar.texts == nil || now.Sub(similar.since) > similarWithin {
		similar.since, similar.texts = now, map[string]bool{}
	}
	if len(similar.texts) <= similarMessages {
		similar.texts[e.Message] = true
	}
	id := identity{group: g, message: e.Message}
	if len(similar.texts) > similarMessages {
		id.message = combinedPrefix
		e.Message = combinedPrefix + e.Message
	}
	repeats := f.written.entry(id)

	tokens := f.budgets.entry(g.source)
	if tokens.next.Before(now) {
		tokens.next = now
	}
	if tokens.next.Sub(now) > (spamBurst-1)*spamEvery {
		return nil, false
	}
	tokens.next = tokens.next.Add(spamEvery)
	return repeats, true
}

// memory is a bounded map with two generations: when the younger is full, the older is dropped.
type memory[K comparable, V any] struct{ young, old map[K]*V }

// entry returns the value of a key, which is a new one if it is not in memory.
func (m *memory[K, V]) entry(k K) *V {
	if v, ok := m.young[k]; ok {
		return v
	}
	v, ok := m.old[k]
	if !ok {
		v = new(V)
	}
	if m.young == nil || len(m.young) >= maxRemembered {
		m.old, m.young = m.young, map[K]*V{}
	}
	m.young[k] = v
	return v
}
