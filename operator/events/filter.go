package events

import (
	"slices"
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

// Limits of the memory for one object.
const (
	maxGroups   = 32
	maxMessages = 32 // of a group
)

const combinedPrefix = "(combined from similar events): "

// filter has the state that limits repeated events.
type filter struct{ objects memory[source, object] }

type source struct {
	component string
	about     corev1.ObjectReference
}

// object has the events of a component about an object.
type object struct {
	// next is when the next token of the token bucket would be available without a burst.
	next   time.Time
	groups []*group
}

// group has the events of a type with a reason. Those with different messages are similar.
type group struct {
	eventType, reason string
	since             time.Time // the beginning of the period in which similar events are counted
	period            int       // its number
	similar           int       // different messages in the period
	written           []*repeated
}

// repeated is an event with its name on the server, empty if it does not exist, and its count.
type repeated struct {
	message string
	period  int // the last in which it was counted as similar
	name    string
	count   int32
}

// judge reports whether an event may be written, and returns the earlier event that it repeats. It
// changes the message of events to combine.
func (f *filter) judge(e *corev1.Event) (*repeated, bool) {
	now := e.LastTimestamp.Time
	from := source{e.Source.Component, e.InvolvedObject}
	from.about.ResourceVersion = ""
	o := f.objects.entry(from)
	g := o.group(e.Type, e.Reason)
	if g.period == 0 || now.Sub(g.since) > similarWithin {
		g.since, g.similar = now, 0
		g.period++
	}
	var repeats *repeated
	if g.similar <= similarMessages {
		if repeats = g.message(e.Message); repeats.period != g.period {
			repeats.period = g.period
			g.similar++
		}
	}
	if g.similar > similarMessages {
		repeats = g.message(combinedPrefix)
		e.Message = combinedPrefix + e.Message
	}
	if o.next.Before(now) {
		o.next = now
	}
	if o.next.Sub(now) > (spamBurst-1)*spamEvery {
		return nil, false
	}
	o.next = o.next.Add(spamEvery)
	return repeats, true
}

func (o *object) group(eventType, reason string) *group {
	return recent(&o.groups, maxGroups,
		func(g *group) bool { return g.eventType == eventType && g.reason == reason },
		func() *group { return &group{eventType: eventType, reason: reason} })
}

func (g *group) message(text string) *repeated {
	return recent(&g.written, maxMessages,
		func(r *repeated) bool { return r.message == text },
		func() *repeated { return &repeated{message: text} })
}

// recent returns the element of a list for which is returns true, or else adds one. The list has
// the most recently used elements, in this order.
func recent[E any](list *[]E, most int, is func(E) bool, create func() E) E {
	var e E
	if i := slices.IndexFunc(*list, is); i >= 0 {
		e = (*list)[i]
		*list = slices.Delete(*list, i, i+1)
	} else {
		e = create()
		if len(*list) >= most {
			*list = slices.Delete(*list, 0, 1)
		}
	}
	*list = append(*list, e)
	return e
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
