package builtin

import (
	"sync"

	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	printerstorage "k8s.io/kubernetes/pkg/printers/storage"
)

// table gives the printer of all built-in kinds; columns do not depend on the version.
func table(string) upstream.TableConvertor { return printer() }

// printer is made at the first table of the process.
var printer = sync.OnceValue(func() upstream.TableConvertor {
	return printerstorage.TableConvertor{TableGenerator: printers.NewTableGenerator().With(printersinternal.AddHandlers, apiServiceColumns)}
})
