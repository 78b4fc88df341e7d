package stage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
)

// environment has the variable self and KWOK's functions.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	since := func(v ref.Val) ref.Val {
		self, ok := v.Value().(map[string]any)
		metadata, _ := self["metadata"].(map[string]any)
		var created time.Time
		switch at := metadata["creationTimestamp"].(type) {
		case time.Time:
			created = at
		case string:
			created, _ = time.Parse(time.RFC3339, at)
		default:
			ok = false
		}
		if !ok {
			return types.NewErr("SinceSecond: not an object with a creationTimestamp")
		}
		return types.Double(time.Since(created).Seconds())
	}
	unix := func(v ref.Val) ref.Val {
		return types.Double(float64(v.Value().(time.Time).UnixNano()) / float64(time.Second))
	}
	return cel.NewEnv(
		ext.Strings(),
		cel.Variable("self", cel.DynType),
		cel.Function("Now", cel.Overload("now", nil, cel.TimestampType,
			cel.FunctionBinding(func(...ref.Val) ref.Val { return types.Timestamp{Time: time.Now()} }))),
		cel.Function("Rand", cel.Overload("rand", nil, cel.DoubleType,
			cel.FunctionBinding(func(...ref.Val) ref.Val { return types.Double(rand.Float64()) }))),
		cel.Function("SinceSecond",
			cel.Overload("since_second", []*cel.Type{cel.DynType}, cel.DoubleType, cel.UnaryBinding(since)),
			cel.MemberOverload("since_second_member", []*cel.Type{cel.DynType}, cel.DoubleType,
				cel.UnaryBinding(since))),
		cel.Function("UnixSecond",
			cel.Overload("unix_second", []*cel.Type{cel.TimestampType}, cel.DoubleType, cel.UnaryBinding(unix)),
			cel.MemberOverload("unix_second_member", []*cel.Type{cel.TimestampType}, cel.DoubleType,
				cel.UnaryBinding(unix))),
	)
})

// program is a compiled CEL expression.
type program struct {
	text string
	cel.Program
}

// celCost limits an evaluation.
const celCost = 1_000_000

func newProgram(text string) (*program, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("cel %q: %s", text, oneLine(err))
	}
	compiled, err := env.Program(checked, cel.CostLimit(celCost))
	if err != nil {
		return nil, fmt.Errorf("cel %q: %w", text, err)
	}
	return &program{text, compiled}, nil
}

// eval returns the value as a Go value.
func (p *program) eval(o *Object) (any, error) {
	self := any(o.Object)
	if o.typed() {
		self = withTimes(o.Object, "")
	}
	value, _, err := p.Eval(map[string]any{"self": self})
	if err != nil {
		return nil, fmt.Errorf("cel %q: %w", p.text, err)
	}
	return value.Value(), nil
}

func newCondition(c *CEL) (condition, error) {
	p, err := newProgram(c.Expression)
	if err != nil {
		return nil, err
	}
	if t := p.text; t == "" {
		return nil, fmt.Errorf("cel: the expression is empty")
	}
	return func(_ context.Context, o *Object) bool {
		value, err := p.eval(o)
		return err == nil && value == true
	}, nil
}

// times are the fields of Pods and Nodes that hold times.
var times = map[string]bool{
	"creationTimestamp": true, "deletionTimestamp": true, "startTime": true, "lastTransitionTime": true,
	"lastProbeTime":     true,
	"lastHeartbeatTime": true, "startedAt": true, "finishedAt": true, "timeAdded": true,
}

// withTimes returns a copy of a value whose times are time.Time. key is the field of the value.
func withTimes(value any, key string) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, field := range v {
			out[k] = withTimes(field, k)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = withTimes(item, "")
		}
		return out
	case string:
		if times[key] {
			if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
				return at
			}
		}
	}
	return value
}
