package stage

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"time"

	"github.com/itchyny/gojq"
)

// query is a compiled jq expression.
type query struct{ code *gojq.Code }

func newQuery(text string) (*query, error) {
	parsed, err := gojq.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("jq %q: %w", text, err)
	}
	code, err := gojq.Compile(parsed)
	if err != nil {
		return nil, fmt.Errorf("jq %q: %w", text, err)
	}
	return &query{code}, nil
}

// queryTime limits a query, which could run forever.
const queryTime = time.Second

// run returns the results that are not null. Like KWOK, it returns none if the query fails, for
// example because it iterates over a missing field.
func (q *query) run(ctx context.Context, o *Object) (results []any) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	for iter := q.code.RunWithContext(ctx, o.Object); ; {
		switch v, ok := iter.Next(); v.(type) {
		case error:
			return nil
		case nil:
			if !ok {
				return results
			}
		default:
			results = append(results, v)
		}
	}
}

// condition is a compiled MatchExpression.
type condition func(context.Context, *Object) bool

func newRequirement(r Requirement) (condition, error) {
	q, err := newQuery(r.Key)
	if err != nil {
		return nil, err
	}
	switch r.Operator {
	case "In", "NotIn":
		if len(r.Values) == 0 {
			return nil, fmt.Errorf("jq %q: operator %s needs values", r.Key, r.Operator)
		}
		in := r.Operator == "In"
		return func(ctx context.Context, o *Object) bool {
			return in == slices.ContainsFunc(q.run(ctx, o), func(v any) bool {
				return slices.Contains(r.Values, text(v))
			})
		}, nil
	case "Exists", "DoesNotExist":
		if len(r.Values) > 0 {
			return nil, fmt.Errorf("jq %q: operator %s has no values", r.Key, r.Operator)
		}
		exists := r.Operator == "Exists"
		return func(ctx context.Context, o *Object) bool { return exists == (len(q.run(ctx, o)) > 0) }, nil
	}
	return nil, fmt.Errorf("jq %q: operator %q: must be In, NotIn, Exists or DoesNotExist", r.Key, r.Operator)
}

// text returns a scalar as users write it among values.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case *big.Int:
		return v.String()
	}
	return "\x00" // lists and maps match no values
}

// source is a compiled ExpressionFrom. If ok is false, the default applies.
type source func(context.Context, *Object) (value any, ok bool)

func newSource(from *ExpressionFrom) (source, error) {
	jq := from.ExpressionFrom
	if from.JQ != nil {
		jq = from.JQ.Expression
	}
	switch {
	case from.CEL != nil:
		program, err := newProgram(from.CEL.Expression)
		if err != nil {
			return nil, err
		}
		return func(_ context.Context, o *Object) (any, bool) {
			value, err := program.eval(o)
			return value, err == nil
		}, nil
	case jq != "":
		q, err := newQuery(jq)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, o *Object) (any, bool) {
			results := q.run(ctx, o)
			if len(results) == 0 {
				return nil, false
			}
			return results[0], true
		}, nil
	}
	return nil, fmt.Errorf("an expression needs cel, jq or expressionFrom")
}
