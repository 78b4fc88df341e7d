package builtin

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"
)

// unprinted are the kinds for which Kubernetes has no table printer. Their tables show name and
// age.
var unprinted = map[schema.GroupResource]bool{
	{Resource: "limitranges"}:                                      true,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}: true,
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:        true,
	{Group: "storage.k8s.io", Resource: "csistoragecapacities"}:    true,
}

// table returns the printer of a kind. The columns do not depend on the version.
func table(gr schema.GroupResource) func(string) upstream.TableConvertor {
	if unprinted[gr] {
		plain := upstream.NewDefaultTableConvertor(gr)
		return func(string) upstream.TableConvertor { return plain }
	}
	return func(string) upstream.TableConvertor { return printer() }
}

// printer returns Kubernetes' table printers. It creates them on first use.
var printer = sync.OnceValue(func() upstream.TableConvertor {
	return tables{printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(
		printersinternal.AddHandlers, apiServiceColumns)}}
})

// tables implements [resource.LeanTable]: no printer reads managedFields.
type tables struct{ upstream.TableConvertor }

func (tables) IgnoresManagedFields() bool { return true }
