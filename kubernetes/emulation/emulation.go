// Package emulation selects the release of Kubernetes that control planes behave like: the linked
// one, or one of the three before it. It configures Kubernetes' own compatibility versions, from
// which feature gates, lifecycles of APIs, storage versions and CEL libraries follow:
//
//	version, err := emulation.Parse("1.34")
//	release, err := version.Claim()
//	defer release()
//
// These settings exist once per process. [Version.Claim] therefore refuses a version while control
// planes of another one run. All functions are safe for concurrent use.
package emulation

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/version"
	serverversion "k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/compatibility"

	"kelson.dev/kubernetes/linked"
)

// Linked is the version of Kubernetes whose packages are linked.
const Linked = linked.Kubernetes

// Variable is the environment variable with the version that programs and test helpers use by
// default. kelson test --kubernetes sets it.
const Variable = "KELSON_EMULATED_VERSION"

// Version is the release that a control plane emulates. The zero value means no emulation.
type Version struct {
	// Emulated is the release whose APIs, features and defaults are served, as "1.34"; "" means the
	// linked one.
	Emulated string
	// MinCompatible is the oldest release that can read the same state, as "1.33"; "" means the one
	// before Emulated, if it can be emulated, and otherwise Emulated.
	MinCompatible string
	// ForwardCompatible also serves versions that are newer than Emulated, of resources that are
	// already served in an older beta or stable version.
	ForwardCompatible bool
	// ConfigForwardCompatible also serves newer APIs that the configuration of APIs enables
	// explicitly.
	ConfigForwardCompatible bool
}

// Parse returns the version with the name of a release, such as "1.34" or "kube=1.34". "" is the
// linked release. The errors are Kubernetes' own.
func Parse(emulated string) (Version, error) {
	if emulated == "" {
		return Version{}, nil
	}
	return ParseFlags([]string{emulated}, nil)
}

// ParseFlags is like Parse with the values of kube-apiserver's flags --emulated-version and
// --min-compatibility-version.
func ParseFlags(emulated, minCompatible []string) (Version, error) {
	registry := compatibility.NewComponentGlobalsRegistry()
	effective := newEffective()
	if err := registry.Register(compatibility.DefaultKubeComponent, effective, nil); err != nil {
		return Version{}, err
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	registry.AddFlags(flags)
	set := map[string][]string{"emulated-version": emulated, "min-compatibility-version": minCompatible}
	for name, values := range set {
		if len(values) > 0 {
			if err := flags.Set(name, strings.Join(values, ",")); err != nil {
				return Version{}, err
			}
		}
	}
	if err := registry.Set(); err != nil {
		return Version{}, err
	}
	if err := utilerrors.NewAggregate(registry.Validate()); err != nil {
		return Version{}, err
	}
	v := Version{}
	if !effective.EqualTo(newEffective()) {
		v.Emulated = effective.EmulationVersion().String()
		v.MinCompatible = effective.MinCompatibilityVersion().String()
	}
	return v, nil
}

// FromEnvironment returns the version that [Variable] names, or the linked release if it is not
// set.
func FromEnvironment() (Version, error) {
	v, err := Parse(os.Getenv(Variable))
	if err != nil {
		return v, fmt.Errorf("%s: %w", Variable, err)
	}
	return v, nil
}

// floor is the oldest release that can be emulated: as in Kubernetes, three before the linked one.
func floor() *version.Version { return version.MustParse(Linked).WithPatch(0).SubtractMinor(3) }

// Releases returns the releases that can be emulated, such as 1.34, the newest first.
func Releases() []string {
	var all []string
	for v := version.MustParse(Linked).WithPatch(0); v.AtLeast(floor()); v = v.SubtractMinor(1) {
		all = append(all, fmt.Sprintf("%d.%d", v.Major(), v.Minor()))
	}
	return all
}

func newEffective() compatibility.MutableEffectiveVersion {
	return compatibility.NewEffectiveVersion(version.MustParse(Linked), false, floor(), floor())
}

// Effective returns the version in the type that Kubernetes' libraries use. The fields of v must
// have the form that Parse gives them.
func (v Version) Effective() (compatibility.EffectiveVersion, error) {
	effective := newEffective()
	for _, part := range []struct {
		text string
		set  func(*version.Version)
	}{{v.Emulated, effective.SetEmulationVersion}, {v.MinCompatible, effective.SetMinCompatibilityVersion}} {
		if part.text == "" {
			continue
		}
		parsed, err := version.Parse(part.text)
		if err != nil {
			return nil, err
		}
		part.set(parsed)
	}
	return effective, utilerrors.NewAggregate(effective.Validate())
}

// claims are the control planes of this process, which all emulate the same version.
var claims struct {
	sync.Mutex
	running int
	current string // of the effective version; "" until the first claim
}

// ErrOtherVersion means that control planes of another version run in this process.
var ErrOtherVersion = errors.New("control planes of another version run in this process, and Kubernetes' feature gates exist once per process")

// Claim makes the libraries of Kubernetes behave like this version until release is called. If
// control planes of another version have claims, it returns an error that wraps ErrOtherVersion.
// The release function may be called more than once.
func (v Version) Claim() (release func(), err error) {
	effective, err := v.Effective()
	if err != nil {
		return nil, err
	}
	claims.Lock()
	defer claims.Unlock()
	if err := use(effective); err != nil {
		return nil, err
	}
	claims.running++
	return sync.OnceFunc(func() {
		claims.Lock()
		defer claims.Unlock()
		claims.running--
	}), nil
}

// Use makes the libraries of Kubernetes behave like this version until another one is used or
// claimed. Commands call it before they set feature gates, whose values are checked against the
// version.
func (v Version) Use() error {
	effective, err := v.Effective()
	if err != nil {
		return err
	}
	claims.Lock()
	defer claims.Unlock()
	return use(effective)
}

// use does the work of Claim and Use. The caller holds the lock of claims.
func use(effective compatibility.EffectiveVersion) error {
	next := effective.String()
	if claims.running > 0 && claims.current != next {
		return fmt.Errorf("emulate Kubernetes %s: %w: they emulate %s", effective.EmulationVersion(), ErrOtherVersion,
			utilfeature.DefaultMutableFeatureGate.EmulationVersion())
	}
	if claims.current == next {
		return nil
	}
	// CEL and storage read the versions from the registry, and feature gates from the gates
	global, ok := serverversion.DefaultComponentGlobalsRegistry.EffectiveVersionFor(compatibility.DefaultKubeComponent).(compatibility.MutableEffectiveVersion)
	if !ok {
		return errors.New("emulate a version: Kubernetes' version cannot be changed")
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetEmulationVersionAndMinCompatibilityVersion(
		effective.EmulationVersion(), effective.MinCompatibilityVersion()); err != nil {
		return err
	}
	global.SetEmulationVersion(effective.EmulationVersion())
	global.SetMinCompatibilityVersion(effective.MinCompatibilityVersion())
	claims.current = next
	return nil
}
