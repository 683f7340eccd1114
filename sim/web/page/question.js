// The question: what the fields say, the address that says the same, the command line that asks it, and which field an error
// of that command line is about.
'use strict';
{
  const MOST_ADDRESS = 24 * 1024;  // characters of a config.json that the address carries
  const MOST_TYPED = 100000;       // characters of all fields together; a terminal takes 131,071 in one word

  // In the order of the page. `option` is penstock-sim's; `key` stands in the address; `other`: of the second machine.
  const FIELDS = [
    {key: 'model', option: '--model'},
    {key: 'gpu', option: '--gpu'},
    {key: 'host', option: '--host'},
    {key: 'ram', option: '--ram'},
    {key: 'drive', option: '--drive'},
    {key: 'gpu2', option: '--gpu', other: true},
    {key: 'host2', option: '--host', other: true},
    {key: 'ram2', option: '--ram', other: true},
    {key: 'drive2', option: '--drive', other: true},
    {key: 'context', option: '--sequence-length'},
    {key: 'step', option: '--tokens-per-step'},
    {key: 'tokens', option: '--tokens'},
    {key: 'policy', option: '--set', before: 'policy.name='},
    {key: 'set', option: '--set', several: true},
    {key: 'rent', option: '--rent'},
    {key: 'price', option: '--price'},
    {key: 'life', option: '--life'},
    {key: 'electricity', option: '--electricity'},
    {key: 'watts', option: '--watts'},
  ];
  const START = {model: 'qwen2.5-7b', gpu: 'RTX 4090', ram: '128GB', tokens: '1B'};
  const CONFIG = 'config.json';  // the name under which a dropped file is asked about

  const input = key => document.getElementById(key);
  const clean = text => text.replace(/[\u0000-\u001f\u007f]/g, ' ').trim();
  const of_side = (field, second) =>
      field.other ? second : !(second && FIELDS.some(other => other.other && other.option === field.option));

  const question = {
    FIELDS,
    CONFIG,
    /// Every field by its key; `compare`: whether the second machine is asked about; `config`: the text of a dropped file.
    read() {
      const asked = {compare: input('compare').checked, config: question.config};
      for (const field of FIELDS) asked[field.key] = clean(input(field.key).value);
      if (asked.model !== CONFIG) asked.config = null;
      return asked;
    },
    config: null,  // {name, text} of a config.json that was dropped or is in the address

    write(asked) {
      for (const field of FIELDS) input(field.key).value = asked[field.key] || '';
      input('compare').checked = Boolean(asked.compare);
      question.config = asked.config || null;
    },

    /// {key, sentence} of the longest field where all together have more characters than the program is given; else null.
    too_long(asked) {
      const length = field => asked[field.key].length;
      if (FIELDS.reduce((sum, field) => sum + length(field), 0) <= MOST_TYPED) return null;
      const {key, option} = FIELDS.reduce((most, field) => length(field) > length(most) ? field : most);
      return {key, sentence: `${option}: ${asked[key].length.toLocaleString('en-US')} characters; expected at most ${
          MOST_TYPED.toLocaleString('en-US')} in all fields`};
    },

    address_has_config: asked => !asked.config || asked.config.text.length <= MOST_ADDRESS,

    /// "#model=...&gpu=..." with what is said; what is left to the program is left out.
    address(asked) {
      if (question.too_long(asked)) return location.hash;
      const said = new URLSearchParams();
      for (const field of FIELDS)
        if (asked[field.key] && (!field.other || asked.compare)) said.set(field.key, asked[field.key]);
      if (asked.compare) said.set('compare', '1');
      if (asked.config && question.address_has_config(asked)) said.set('config', asked.config.text);
      return '#' + said.toString();
    },
    from_address(address) {
      const said = new URLSearchParams(address.replace(/^#/, ''));
      if ([...said].length === 0) return {...START};
      const asked = {compare: said.get('compare') === '1'};
      for (const field of FIELDS) asked[field.key] = clean(said.get(field.key) || '');
      if (said.has('config') && asked.model === CONFIG) asked.config = {name: CONFIG, text: said.get('config')};
      return asked;
    },

    /// The options that say it, each [option, value]; of the first machine or the second.
    options(asked, second = false) {
      const options = [];
      for (const field of FIELDS) {
        const value = asked[field.key];
        if (!value || !of_side(field, second)) continue;
        for (const part of field.several ? value.split(';').map(clean).filter(Boolean) : [value])
          options.push([field.option, (field.before || '') + part]);
      }
      return options;
    },
    /// For the program: one word each, so that a value with dashes stays a value.
    words: options => options.map(([option, value]) => `${option}=${value}`),
    /// For a shell, to be copied.
    shell(command, options) {
      const quoted = text => /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
      return ['penstock-sim', command, ...options.flatMap(([option, value]) =>
                  value.startsWith('-') ? [quoted(`${option}=${value}`)] : [option, quoted(value)])].join(' ');
    },

    /// The key of the field that a sentence of the program is about; null: of none alone.
    field_of(sentence, second = false) {
      const fields = FIELDS.filter(field => of_side(field, second));
      if (sentence.startsWith(CONFIG)) return 'model';
      const named = option => fields.find(field => field.option === option && !field.before)?.key;
      const missing = sentence.match(/^--[a-z-]+ without (--[a-z-]+)/);
      if (missing) return named(missing[1]) || null;
      if (/\/(cards|hosts)\//.test(sentence)) return named(input(named('--host')).value ? '--host' : '--gpu');
      const at = sentence.match(/policy\.name/) && 'policy';
      if (at && input(at).value) return at;
      for (const [option] of sentence.matchAll(/--[a-z-]+/g))
        if (named(option)) return named(option);
      return null;
    },
  };
  window.question = question;
}
