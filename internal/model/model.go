// Package model holds the protocol of the packages session, lock and guard in Promela, the language of the model
// checker SPIN, and tests that let SPIN look at all its runs. The model is in lock.pml and the files that it includes;
// lock.pml says which code each of them stands for, what is left out, and how to run it by hand. properties.pml has what
// is checked.
//
// What is shown is shown of the model: that the rules hold together, whatever is lost, late, paused or ended, within
// the bounds that lock.pml names. That the code follows the rules is for its own tests. The model earns its keep by
// what it finds when a rule is taken away: without the guard, the seal or the epoch key, and with a key that is written
// twice, SPIN tells the shortest story of how it goes wrong; go test -v prints them.
package model
