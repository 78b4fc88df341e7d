// Package applyconfiguration generates apply configurations with the same API as
// applyconfiguration-gen: for every struct in a kind, a type FooApplyConfiguration with optional
// fields, a constructor Foo, and a With function for each field. Kinds also have Extract functions,
// which return the fields that a field manager has applied to an object or a subresource.
//
//	OUTPUT/applyconfiguration/GROUP/VERSION/kind.go
//	OUTPUT/applyconfiguration/internal/internal.go    the schemas by which Extract functions read objects
//	OUTPUT/applyconfiguration/utils.go                ForKind, NewTypeConverter
//
//	mine, err := shop.ExtractPizza(pizza, "cook")
//	shop.Pizza("margherita", "default").WithSpec(shop.PizzaSpec().WithSize(2))
//
// For Kubernetes' own types it uses client-go's apply configurations. The Extract functions use the
// schemas of the kinds' CustomResourceDefinitions, with which servers track field ownership.
package applyconfiguration
