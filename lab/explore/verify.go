package explore

import (
	"context"
	"fmt"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
)

// Checked is the summary of a scenario that Check has checked, with the warnings about its project.
func Checked(s Scenario) Report { return Report{Checked: true, Warnings: s.warnings} }

// Check checks a scenario without its operator, in a moment: whether the control plane starts with
// the definitions, rights and webhooks, accepts the prepared objects, and serves the kinds that the
// scenario names. It also makes those inputs that create, apply or delete an object, except objects
// for which webhooks of the operator would have to respond.
func Check(ctx context.Context, s Scenario) error {
	if s.Program == nil && s.Operator == nil && s.Binary == nil {
		s.Operator, s.Services = Parts(), nil // not started
	}
	if err := s.validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kelson-explore-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return inScope(ctx, dir, func(sc *scope) {
		e := &explorer{scenario: s, base: testenv.New(sc, s.Env...)}
		require.NoError(sc, e.checkManifests(ctx))
	})
}

func (e *explorer) checkManifests(ctx context.Context) error {
	s, c := &e.scenario, e.base.Client()
	if err := setConversions(ctx, c, s.conversions); err != nil {
		return err
	}
	if s.Prepare != nil {
		if err := s.Prepare(ctx, c); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	if err := e.checkServed(); err != nil {
		return err
	}
	setNamespaces(e.base, s.Inputs)
	for _, input := range s.Inputs {
		if !input.simple {
			return nil // the later ones may depend on the operator
		}
		err := input.do(ctx, c)
		if err != nil && e.hasWebhooks() && strings.Contains(err.Error(), "webhook") {
			continue // only the operator can answer
		}
		if err != nil {
			return fmt.Errorf("input %q: %w%s", input, err, s.nextStep(err))
		}
	}
	return nil
}

// nextStep returns what the author of a project does about an input that the control plane has
// refused; "" if the error itself says it, or if the scenario does not belong to a project.
func (s *Scenario) nextStep(err error) string {
	switch {
	case s.folder == "":
		return ""
	case meta.IsNoMatchError(err):
		return fmt.Sprintf("; the project's definitions are those in %s: generate them, name others in definitions in %s, "+
			"or correct the object", s.folder, ConfigFile)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return "; correct the object, or set inputs in " + ConfigFile
	}
	return ""
}
