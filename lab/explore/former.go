package explore

import (
	"errors"
	"slices"
)

// Upgrade and Rollback run the former version of the operator; see Scenario.Former.
const (
	// Upgrade has the former version run from the beginning until it is quiet after the N-th input.
	// Then the operator is upgraded. At the end, the objects must be as without the former version
	// (O1, O9).
	Upgrade Kind = "upgrade"
	// Rollback stops the operator when it is quiet after the N-th input. The former version runs
	// until it is quiet, and then the operator again. The objects must be as before (O8).
	Rollback Kind = "rollback"
)

// ofFormer are the kinds of faults with the former version.
var ofFormer = []Kind{Upgrade, Rollback, Beside, UpgradeDefinitions}

// NeedsFormer reports whether a plan, as a text, runs the former version of the operator.
func NeedsFormer(plan string) bool {
	p, err := ParsePlan(plan)
	return err == nil && p.has(ofFormer...)
}

// variant is a variant of the operator's processes.
type variant string

const (
	newest variant = "the newest version of the operator"
	former variant = "the former version of the operator"
	abroad variant = "the operator in the time zone " + zoneName
)

// begin returns the variant with which a run begins.
func (p Plan) begin() variant {
	for _, f := range p {
		switch f.Kind {
		case Upgrade, Beside, UpgradeDefinitions:
			return former
		case TimeZone:
			return abroad
		}
	}
	return newest
}

// errNoFormer means that a plan needs a former version that the scenario does not have.
var errNoFormer = errors.New("the plan needs the former version of the operator: set Scenario.Former or FormerProgram, or pass --former")

// FormerFolder returns the folder of the project's former version that ConfigFile names, or "".
func (s *Scenario) FormerFolder() string { return s.former }

// hasFormer reports whether there is a former version.
func (s *Scenario) hasFormer() bool { return s.Former != nil || s.FormerProgram != nil }

// formers returns the plans with the former version: one of each kind after each input.
func (e *explorer) formers() (plans []Plan) {
	if !e.scenario.hasFormer() {
		return nil
	}
	for n, input := range e.scenario.Inputs {
		if input.wait > 0 {
			continue
		}
		for _, kind := range ofFormer {
			if kind == UpgradeDefinitions && !e.definitionsDiffer {
				continue
			}
			plans = append(plans, Plan{{Kind: kind,
				At: Point{Verb: after, Resource: "operator", Object: "former", N: n + 1}}})
		}
	}
	return plans
}

// rollBack performs Rollback.
func (a *actions) rollBack(before State) bool {
	a.trial.operator.replace(former)
	if !a.trial.settle() {
		return false
	}
	a.trial.operator.replace(newest)
	return a.trial.settle() && a.trial.oracles.checkSame("O8",
		"a rollback and the upgrade after it leave another state", before,
		"before the rollback")
}

// afterVariant applies the oracles that compare a run that began with another variant with those
// without it. The variants may write at different moments, so the counts of O2 are not compared.
func (e *explorer) afterVariant(plan Plan, r *result, reference *outcomes) []Alarm {
	return slices.DeleteFunc(append(e.compare(plan, r, reference), persistent(r, reference)...), func(a Alarm) bool {
		return a.Oracle == "O2"
	})
}

// replace ends the process, and starts one of a variant.
func (op *processes) replace(v variant) {
	op.process.kill()
	op.observed.forgetErrors()
	op.variant = v
	op.result.log(string(v) + " starts")
	op.startNext()
}
