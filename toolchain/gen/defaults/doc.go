// Package defaults writes functions that fill in what objects leave out:
//
//	func SetObjectDefaults_Pizza(in *Pizza)            one for every kind that has anything to fill in
//	func RegisterDefaults(scheme *runtime.Scheme) error    has scheme.Default call them
//
// They set what +default markers say, then call the functions SetDefaults_TYPE(*TYPE) that are written by hand, for every value of such a
// type, outer before inner. A value counts as left out if it is nil, or zero where it is no pointer.
//
// Where the package's registration is generated too, RegisterDefaults is a part of AddToScheme.
package defaults
