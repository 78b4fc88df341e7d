// Package gen contains the tests of generators that use only what these export, each in files whose
// names begin with the generator's. One program for all of them is linked faster.
package gen
