//! The checker itself: known histories, and many small ones compared with the definition.

use tenure_proof::{History, Object, Operation, Tally, seed};
use tenure_testkit::Random;

fn operation(
    object: Object,
    action: &str,
    arguments: &[u64],
    call: u64,
    returned: Option<(&[u64], u64)>,
) -> Operation {
    let returned = returned.map(|(answer, at)| (answer.to_vec(), at));
    Operation { object, action: action.to_owned(), arguments: arguments.to_vec(), call, returned }
}

fn is_linearizable(operations: &[Operation]) -> bool {
    let mut history = History::default();
    for operation in operations {
        history.add(1, operation.clone());
    }
    history.violations().is_empty()
}

#[test]
fn known_histories_are_judged_rightly() {
    let mut tally = Tally::new("torture", "known_histories_are_judged_rightly");
    let add = |call, returned| operation(Object::Counter, "add", &[1], call, returned);
    let read =
        |call, sum: u64, at| operation(Object::Counter, "read", &[], call, Some((&[sum], at)));
    let set =
        |old, new, call, returned| operation(Object::Register, "cas", &[old, new], call, returned);
    let append =
        |value, call, returned| operation(Object::Queue, "append", &[value], call, returned);
    let tail =
        |call, told: &[u64], at| operation(Object::Queue, "tail", &[], call, Some((told, at)));
    let put = |job, call, at| operation(Object::Jobs, "put", &[job], call, Some((&[], at)));
    let take = |call, job: u64, at| operation(Object::Jobs, "take", &[], call, Some((&[job], at)));
    let known = [
        ("jobs in order", vec![put(7, 1, 2), put(8, 3, 4), take(5, 7, 6), take(7, 8, 8)], true),
        ("jobs out of order", vec![put(7, 1, 2), put(8, 3, 4), take(5, 8, 6)], false),
        ("a job taken twice", vec![put(7, 1, 2), take(3, 7, 6), take(4, 7, 7)], false),
        ("a lost job", vec![put(7, 1, 2), take(3, 0, 4)], false),
        ("one after another", vec![add(1, Some((&[1], 2))), read(3, 1, 4)], true),
        ("a stale read", vec![add(1, Some((&[1], 2))), read(3, 0, 4)], false),
        ("a read meanwhile", vec![add(1, Some((&[1], 9))), read(3, 0, 4), read(5, 1, 6)], true),
        ("back again", vec![add(1, Some((&[1], 9))), read(3, 1, 4), read(5, 0, 6)], false),
        ("a lost update", vec![add(1, Some((&[1], 5))), add(2, Some((&[1], 6)))], false),
        ("cut short, it happened", vec![add(1, None), read(3, 1, 4)], true),
        ("cut short, it did not", vec![add(1, None), read(3, 0, 4), read(5, 0, 6)], true),
        ("cut short, then back", vec![add(1, None), read(3, 1, 4), read(5, 0, 6)], false),
        ("not called yet", vec![read(1, 1, 2), add(3, None)], false),
        ("two set it", vec![set(0, 5, 1, Some((&[1], 4))), set(0, 6, 2, Some((&[1], 5)))], false),
        ("one sets it", vec![set(0, 5, 1, Some((&[1], 4))), set(0, 6, 2, Some((&[0], 5)))], true),
        ("refused for nothing", vec![set(0, 5, 1, Some((&[0], 4)))], false),
        ("set from another value", vec![set(3, 5, 1, Some((&[1], 4)))], false),
        (
            "one number twice",
            vec![append(7, 1, Some((&[1], 4))), append(8, 2, Some((&[1], 4)))],
            false,
        ),
        ("the last of two", vec![append(7, 1, Some((&[1], 4))), tail(5, &[1, 7], 6)], true),
        ("another value", vec![append(7, 1, Some((&[1], 4))), tail(5, &[1, 8], 6)], false),
    ];
    for (name, operations, expected) in known {
        assert_eq!(is_linearizable(&operations), expected, "{name}: {operations:?}");
        if !expected {
            tally.caught(&format!("a made-up history: {name}"));
        }
    }
}

/// Counters are enough here: the search is the same for all objects.
#[test]
fn small_histories_are_judged_as_the_definition_does() {
    let mut tally = Tally::new("torture", "small_histories_are_judged_as_the_definition_does");
    let mut random =
        Random::new(seed("torture", "small_histories_are_judged_as_the_definition_does"));
    let (mut good, mut bad) = (0, 0);
    for _ in 0..4000 {
        let operations: Vec<_> =
            (0..2 + random.index(5)).map(|_| some_operation(&mut random)).collect();
        let expected = some_order_explains(&operations, 0);
        assert_eq!(is_linearizable(&operations), expected, "{operations:?}");
        *(if expected { &mut good } else { &mut bad }) += 1;
    }
    assert!(good > 300 && bad > 300, "{good} good, {bad} bad");
    tally.tried(good + bad, "small histories judged twice");
}

fn some_operation(random: &mut Random) -> Operation {
    let call = random.below(12);
    let (action, arguments): (_, &[u64]) =
        if random.coin() { ("add", &[1]) } else { ("read", &[]) };
    let answer = random.below(3) + u64::from(action == "add");
    let at = call + 1 + random.below(6);
    let answer = [answer];
    let returned = (!random.chance(50)).then_some((&answer[..], at));
    operation(Object::Counter, action, arguments, call, returned)
}

/// The definition: some operation that need not follow another comes first and got the right
/// answer, and some order explains the rest. Operations without an answer may be left out.
fn some_order_explains(left: &[Operation], sum: u64) -> bool {
    if left.iter().all(|operation| operation.returned.is_none()) {
        return true;
    }
    let first_return = left.iter().filter_map(|one| one.returned.as_ref()).map(|(_, at)| *at).min();
    (0..left.len()).any(|index| {
        let next = &left[index];
        if first_return.is_some_and(|at| at < next.call) {
            return false;
        }
        let after = sum + u64::from(next.action == "add");
        let right = next.returned.as_ref().is_none_or(|(answer, _)| answer[..] == [after]);
        let rest: Vec<_> = [&left[..index], &left[index + 1..]].concat();
        right && some_order_explains(&rest, after)
    })
}
